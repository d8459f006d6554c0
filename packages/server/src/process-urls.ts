/** Bound addresses and ports (`http://0.0.0.0:8000`); a listener that was not asked for is absent. */
export interface ProcessUrls {
  readonly http?: string;
  /** `host:port`, as clients of gRPC take it. */
  readonly grpc?: string;
  readonly metrics?: string;
  /** The Redis in use, without user and password; absent where there is none. */
  readonly redis?: string;
}

interface Listener {
  listen(): Promise<{ readonly url: string }>;
}

/** Opens the listeners and tells where they are. */
export async function openUrls(of: {
  readonly http?: Listener | undefined;
  readonly grpc?: Listener | undefined;
  readonly metrics: Listener | undefined;
  readonly redis: string | undefined;
}): Promise<ProcessUrls> {
  const { http, grpc, metrics, redis } = of;
  return {
    ...(http === undefined ? {} : { http: (await http.listen()).url }),
    ...(grpc === undefined ? {} : { grpc: (await grpc.listen()).url }),
    ...(metrics === undefined ? {} : { metrics: (await metrics.listen()).url }),
    ...(redis === undefined ? {} : { redis }),
  };
}
