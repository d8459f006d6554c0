import { type DescribedMessage, type ProcessId, type RunningStream, senderOf } from '@nereid/protocol';
import type { Mailbox } from '@nereid/transport';

/**
 * Tells each gateway which of its streams a worker runs (docs/protocol.md R27): gateways have no other
 * sign of a stream between two chunks.
 */
export function passOnSigns(mailbox: Mailbox, { model, streams }: DescribedMessage): void {
  if (streams.length === 0) return;
  const byGateway = new Map<ProcessId, RunningStream[]>();
  for (const stream of streams) {
    const gateway = senderOf(stream.id);
    const known = byGateway.get(gateway);
    if (known === undefined) byGateway.set(gateway, [stream]);
    else known.push(stream);
  }
  for (const [gateway, own] of byGateway) mailbox.send(gateway, { kind: 'running', model, streams: own });
}
