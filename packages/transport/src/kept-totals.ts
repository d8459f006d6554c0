/** Totals of models that outlive whoever counts them. */
export interface KeptTotal {
  readonly model: string;
  /** Number of the epoch under which it was counted; what a later owner has kept stays. */
  readonly epoch: number;
  /** Its owner's own form; '' forgets the model. */
  readonly text: string;
}

/**
 * Where owners keep what they have counted, for those who take their models over. Nothing rests on
 * it but statistics: what is not there is counted from 0.
 */
export interface KeptTotals {
  /** What was kept last of these models, where anything was. Rejects where that cannot be known. */
  read(models: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** All of them or, where it rejects, perhaps some. */
  write(totals: readonly KeptTotal[]): Promise<void>;
}
