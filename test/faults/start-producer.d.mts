/** The Python that has the package `bullmq`; undefined where there is none. */
export declare function findPython(): string | undefined;
