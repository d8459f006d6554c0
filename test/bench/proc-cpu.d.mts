/** Seconds that each process with its children has used so far, by the names that `pids` gives. */
export declare function treeSeconds(pids: Readonly<Record<string, number>>): Record<string, number>;
