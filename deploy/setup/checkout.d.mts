export declare const ROOT: string;
export declare const COMMAND: string;
export declare const COMMAND_BUNDLE: string;
export declare function commandFile(): string;
export declare const MODEL_REPOSITORY: string;
export declare const VENV: string;

export declare function toolEnvironment(more?: Record<string, string>): Record<string, string | undefined>;
