/** Headers of frames about loads and unloads. */
import { readError } from './error-frame.ts';
import { type FrameReader, flag, nullable, oneOf, record, text } from './frame-reader.ts';
import { type ChangedMessage, type ChangeMessage, MODEL_ACTIONS } from './question-messages.ts';

export const readChange: FrameReader<ChangeMessage> = record<ChangeMessage>({
  kind: () => 'change',
  model: text,
  id: text,
  action: oneOf(MODEL_ACTIONS),
  override: text,
  dependents: flag,
});

export const readChanged: FrameReader<ChangedMessage> = record<ChangedMessage>({
  kind: () => 'changed',
  model: text,
  id: text,
  over: flag,
  error: nullable(readError),
  contentHash: text,
});
