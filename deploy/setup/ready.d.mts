export declare function becomesReady(url: string, hasEnded: () => boolean, limitMs: number): Promise<boolean>;
