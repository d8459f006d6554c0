export declare function checkNodeVersion(version?: string): void;
