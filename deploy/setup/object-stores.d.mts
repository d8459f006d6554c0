export const STORE_SERVERS: { readonly s3: string; readonly gcs: string; readonly azure: string };
export function ensureObjectStores(): Promise<{ missing?: string }>;
