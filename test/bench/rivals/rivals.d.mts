/** One request of the bench. Another seed gives other inputs. */
export interface BenchRow {
  readonly model: string;
  readonly encoding: 'json' | 'binary' | 'grpc';
  readonly seed: number;
  /** What must be answered, where it is known already: computed otherwise. */
  readonly outputs?: readonly object[];
}

export interface RivalRequest {
  /** HTTP without it. */
  readonly mode?: 'grpc';
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer<ArrayBuffer>;
  /** What is wrong with an answer, or undefined. */
  check(body: Buffer, headers: Headers): string | undefined;
}

/** A server that Nereid is compared with; rivals.mjs says what each function does. */
export interface Rival {
  readonly name: string;
  readonly title: string;
  serves(row: Pick<BenchRow, 'model' | 'encoding'>): boolean;
  missing(): Promise<string | undefined>;
  start(options: { readonly port: number; readonly models: string }): Promise<{
    readonly port: number;
    readonly pids: Readonly<Record<string, number>>;
    stop(): Promise<void>;
  }>;
  request(row: BenchRow): RivalRequest;
}

export declare const RIVALS: readonly Rival[];
