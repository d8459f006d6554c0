export declare const ROOT: string;
export declare const CLI: string;
export declare const MODEL_REPOSITORY: string;
export declare const VENV: string;
