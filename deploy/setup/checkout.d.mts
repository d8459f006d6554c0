export declare const ROOT: string;
export declare const CLI: string;
