/** What the header of a `control` frame holds, see message-header.ts. */
import type { ControlMessage } from './control-message.ts';
import { count, type FrameReader, flag, integer, list, oneOf, record, text } from './frame-reader.ts';
import type { Epoch } from './message.ts';

const epoch = record<Epoch>({ number: integer, owner: text });

type ControlExtras = 'load' | 'keep' | 'override' | 'onDemand' | 'pinned';
const controlMembers = record<Omit<ControlMessage, ControlExtras> & Record<ControlExtras, unknown>>({
  kind: oneOf(['control']),
  model: text,
  epoch,
  action: oneOf(['load', 'unload', 'drain']),
  config: text,
  versions: list(text),
  contentHash: text,
  load: (value) => value,
  keep: (value) => value,
  override: (value) => value,
  onDemand: (value) => value,
  pinned: (value) => value,
});
export const readControl: FrameReader<ControlMessage> = (value, body) => {
  const { load, keep, override, onDemand, pinned, ...members } = controlMembers(value, body);
  return {
    ...members,
    ...(load === undefined ? {} : { load: count(load, body) }),
    ...(keep === undefined ? {} : { keep: list(count)(keep, body) }),
    ...(override === undefined ? {} : { override: text(override, body) }),
    ...(onDemand === undefined ? {} : { onDemand: flag(onDemand, body) }),
    ...(pinned === undefined ? {} : { pinned: flag(pinned, body) }),
  };
};
