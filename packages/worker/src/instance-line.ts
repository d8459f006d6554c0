import type { InstanceOrder, InstanceReport, InstanceSetup } from './instance-messages.ts';

/** What comes back by a line. */
export interface LineEvents {
  readonly take: (report: InstanceReport) => void;
  /** The frame of a batch that nobody looks at any more. */
  readonly spare: (frame: ArrayBuffer) => void;
  /** Its thread or process is gone, with why in words. Called exactly once, after the last report. */
  readonly ended: (words: string) => void;
}

/** A worker's end of the line to the thread or process that carries an instance. */
export interface InstanceLine {
  /**
   * Gives away the buffers of an order, of whose frame the first `frameBytes` are used. Throws where
   * something in it cannot be sent.
   */
  post(order: InstanceOrder, frameBytes: number): void;
  /** Ends it in the middle of whatever it does, where that can be done. */
  terminate(): void;
  /** It is not wanted any more, and has no batches. */
  giveUp(): void;
}

/** Starts a thread or process for an instance. Throws where the system gives none. */
export type OpenLine = (setup: InstanceSetup, events: LineEvents) => InstanceLine;
