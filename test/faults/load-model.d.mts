/** The model that the load asks. */
export declare const LOAD_MODEL: string;
