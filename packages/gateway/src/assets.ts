/** The folder of files that pages are made of: beside `src` and `dist`, and beside the bundle of the command. */
export const ASSETS = new URL('../assets/', import.meta.url);
