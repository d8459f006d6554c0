import type { InstanceOrder } from './instance-messages.ts';
import type { PackedReport } from './run-batch.ts';

/** The instance's end of the line to its worker. */
export interface InstancePort {
  post(packed: PackedReport): void;
  /** Orders that have come, or come, go to `take`. Called once. */
  listen(take: (order: InstanceOrder) => void): void;
  /**
   * Takes what has come while a run let no event in. A promise where that needs a turn of the event
   * loop, to be waited for.
   */
  catchUp(): Promise<void> | undefined;
  /** Resolves once all reports are on their way; nothing keeps the thread or process alive after. */
  close(): Promise<void>;
}
