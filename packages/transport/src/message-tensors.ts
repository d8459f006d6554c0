import type { CarriedTensor, Message, ProcessId } from '@nereid/protocol';

/** Calls back with each tensor of a message, in its order; `replyTo`: who sent its request, none for an answer's. */
export function forEachTensor(
  message: Message,
  visit: (tensor: CarriedTensor, replyTo: ProcessId | undefined) => void,
): void {
  switch (message.kind) {
    case 'infer':
      for (const tensor of message.request.inputs) visit(tensor, message.replyTo);
      return;
    case 'execute':
      for (const { request, replyTo } of message.entries) for (const tensor of request.inputs) visit(tensor, replyTo);
      return;
    case 'response':
      if (message.outcome.ok) for (const tensor of message.outcome.response.outputs) visit(tensor, undefined);
      return;
    default:
  }
}

/** The message with other tensors in the places of its own. */
export function withTensors(message: Message, change: (tensor: CarriedTensor) => CarriedTensor): Message {
  switch (message.kind) {
    case 'infer':
      return { ...message, request: { ...message.request, inputs: message.request.inputs.map(change) } };
    case 'execute': {
      const entries = message.entries.map((entry) => ({
        ...entry,
        request: { ...entry.request, inputs: entry.request.inputs.map(change) },
      }));
      return { ...message, entries };
    }
    case 'response': {
      const { outcome } = message;
      if (!outcome.ok) return message;
      const { response } = outcome;
      return {
        ...message,
        outcome: { ok: true, response: { ...response, outputs: response.outputs.map(change) } },
      };
    }
    default:
      return message;
  }
}
