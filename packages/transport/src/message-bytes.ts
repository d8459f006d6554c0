import type { CarriedOutcome, CarriedTensor, Message } from '@nereid/protocol';

/** What a message without its tensors counts as: a cheap stand-in for the length of its header. */
const HEADER_BYTES = 256;

/** About how many bytes a message holds: its tensors exactly, also those that it only names, the rest by one constant. */
export function messageBytes(message: Message): number {
  switch (message.kind) {
    case 'infer':
      return HEADER_BYTES + tensorBytes(message.request.inputs);
    case 'execute': {
      let bytes = HEADER_BYTES;
      for (const entry of message.entries) bytes += HEADER_BYTES + tensorBytes(entry.request.inputs);
      return bytes;
    }
    case 'response':
      return HEADER_BYTES + outcomeBytes(message.outcome);
    case 'control':
      return HEADER_BYTES + message.config.length;
    default:
      return HEADER_BYTES;
  }
}

function outcomeBytes(outcome: CarriedOutcome): number {
  return outcome.ok ? tensorBytes(outcome.response.outputs) : outcome.error.message.length;
}

function tensorBytes(tensors: readonly CarriedTensor[]): number {
  let bytes = 0;
  for (const tensor of tensors) bytes += 'blob' in tensor ? tensor.blob.bytes : tensor.data.byteLength;
  return bytes;
}
