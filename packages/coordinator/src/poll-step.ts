/** What a coordinator that polls remembers of a model between two looks at its repositories. */
export interface PolledModel {
  /** Its signature at the last look; undefined where it could not be had: not there, or in two repositories. */
  readonly last: string | undefined;
  /** What two looks in a row saw last. Until then it may be a folder that is still being written. */
  readonly settled: string | undefined;
  /** The settled signature that was loaded last, or tried to be. */
  readonly tried: string | undefined;
  /** That load failed. */
  readonly failed: boolean;
}

/** How things stand with the model at a look. */
export interface PollSight {
  readonly found: string | undefined;
  /**
   * `ours`: this coordinator is to follow its files, as its owner, or because nobody could read it yet and it falls to
   * this one; `others`: another coordinator is, or will be once it has taken it.
   */
  readonly holder: 'ours' | 'others';
  /** It is served, or is on its way to be, or waits for what it needs. */
  readonly loaded: boolean;
  /** A load or unload is not over. */
  readonly busy: boolean;
}

export interface PollStep {
  readonly after: PolledModel;
  readonly act: 'load' | 'unload' | 'nothing';
}

/** Of which nothing is known. */
export const UNSEEN: PolledModel = { last: undefined, settled: undefined, tried: undefined, failed: false };

/**
 * What a look at the repositories means for a model. A change counts once two looks in a row have seen the same. What
 * changed is loaded anew, and what did not load is tried again at each look, as in Triton; what went is unloaded.
 */
export function pollStep(before: PolledModel, { found, holder, loaded, busy }: PollSight): PollStep {
  const settled = found === before.last ? found : before.settled;
  const seen = { ...before, last: found, settled };
  // Its owner keeps to it; whoever takes the model over compares the files.
  if (holder === 'others') return { after: { ...seen, tried: settled, failed: false }, act: 'nothing' };
  if (busy) return { after: seen, act: 'nothing' };
  const tried = { ...seen, tried: settled };
  if (settled === undefined) {
    // One that is there was loaded by an owner that saw it sooner.
    const gone = loaded && found === undefined;
    return { after: { ...tried, failed: false }, act: gone ? 'unload' : 'nothing' };
  }
  const isDue = settled !== before.tried || before.failed || !loaded;
  // Half of what is being written is not what failed before.
  const isWhole = found === settled;
  return isDue && isWhole ? { after: tried, act: 'load' } : { after: seen, act: 'nothing' };
}

/** Whether there is anything to remember. */
export function isUnseen({ last, settled }: PolledModel): boolean {
  return last === undefined && settled === undefined;
}
