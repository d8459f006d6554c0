/** What a model has to do, and what one worker does of it at a time. */
export interface ModelWork {
  /** Requests and jobs, also those that nobody has taken yet. */
  readonly waiting: number;
  readonly running: number;
  /** Instances of the model on one worker. */
  readonly instances: number;
  /** Requests that one execution takes. */
  readonly batch: number;
  /** It wants no worker while it has nothing to do. */
  readonly scaleToZero: boolean;
}

/**
 * How many workers the waiting and running work of a model wants: as many as do all of it at a time, at least one while
 * there is any, or where the model is to be there in any case.
 */
export function desiredWorkers({ waiting, running, instances, batch, scaleToZero }: ModelWork): number {
  const atATime = Math.max(1, instances) * Math.max(1, batch);
  return Math.max(scaleToZero ? 0 : 1, Math.ceil((waiting + running) / atATime));
}
