export declare function sampleRepository(): string | undefined;
