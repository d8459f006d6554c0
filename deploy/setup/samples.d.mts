export declare function sampleRepository(name?: string): string | undefined;
