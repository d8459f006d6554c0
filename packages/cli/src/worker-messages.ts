/** What a worker and the process that keeps it say to each other. */

export type WorkerMessage =
  /** Its metrics are at that port of this machine, undefined where it has none. */
  | { readonly kind: 'started'; readonly metricsPort: number | undefined }
  | { readonly kind: 'holds'; readonly ready: readonly string[]; readonly isLoading: boolean }
  /** It is past a limit: another is to take its place. */
  | { readonly kind: 'spent'; readonly why: string };

export type KeeperMessage =
  /** It is to serve from now on: what its limits count begins here. */
  | { readonly kind: 'serve' }
  | { readonly kind: 'tell' }
  /** Another serves in its place: it ends once nothing that it accepted is left. */
  | { readonly kind: 'retire' };
