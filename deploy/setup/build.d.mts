export declare function buildInputs(): string[];
