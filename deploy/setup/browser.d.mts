export declare const BROWSERS: readonly string[];
