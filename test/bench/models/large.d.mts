export declare function writeLargeModel(repository: string, name: string, carrier: 'thread' | 'process'): void;
