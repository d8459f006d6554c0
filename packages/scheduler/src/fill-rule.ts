/** A batch is filled up as long as it is expected to take no more than this many times what it takes without. */
const SLOWER_MAX = 1.1;
/** What is known is of so many executions, the newest counting most. */
const MEMORY = 100;
const KNOWN_MIN = 4;
/** Variance of their rows below which nothing is known of how the time grows with them. */
const ROWS_VARIANCE_MIN = 0.05;
/** Nothing known: every so many batches are filled up, and the others are not, so that both are seen. */
const UNKNOWN_EVERY = 2;
/** All known: every so many go the other way, so that a change is seen. */
const KNOWN_EVERY = 32;
/** One execution counts as at most so many times the mean; the first one of a model is no measure and does not count. */
const OUTLIER_MAX = 4;
/** A mean below this counts as this much: of a mean of nothing every execution would be an outlier for ever. */
const US_MIN = 1;

/**
 * How many rows a batch may be filled up with that somebody waits for, by how the model's time grew with its rows: the
 * line that fits the last executions best.
 */
export interface FillRule {
  /** An execution of so many rows took so long. */
  ran(rows: number, runUs: number): void;
  /** Rows of a batch of so many once it is filled up; `full` at most. To be asked once for each batch that may be filled. */
  rowsMax(rows: number, full: number): number;
}

export function createFillRule(): FillRule {
  let isFirst = true;
  let count = 0;
  let meanRows = 0;
  let meanUs = 0;
  let rowsVariance = 0;
  let covariance = 0;
  let asked = 0;

  const rowsHardlySlower = (rows: number, full: number): number => {
    const usPerRow = covariance / rowsVariance;
    if (usPerRow <= 0) return full;
    const us = Math.max(0, meanUs + usPerRow * (rows - meanRows));
    return Math.min(full, rows + Math.floor(((SLOWER_MAX - 1) * us) / usPerRow));
  };

  return {
    ran(rows, runUs) {
      if (isFirst) {
        isFirst = false;
        return;
      }
      const us = count === 0 ? runUs : Math.min(runUs, OUTLIER_MAX * Math.max(meanUs, US_MIN));
      count = Math.min(count + 1, MEMORY);
      const share = 1 / count;
      const rowsOff = rows - meanRows;
      const usOff = us - meanUs;
      meanRows += share * rowsOff;
      meanUs += share * usOff;
      rowsVariance = (1 - share) * (rowsVariance + share * rowsOff * rowsOff);
      covariance = (1 - share) * (covariance + share * rowsOff * usOff);
    },
    rowsMax(rows, full) {
      const isKnown = count >= KNOWN_MIN && rowsVariance >= ROWS_VARIANCE_MIN;
      const turn = asked++;
      if (!isKnown) return turn % UNKNOWN_EVERY === 0 ? full : rows;
      const most = rowsHardlySlower(rows, full);
      if (turn % KNOWN_EVERY !== 0) return most;
      return most < full ? full : rows;
    },
  };
}
