import type { DescribedMessage, ProcessId, RunningStream } from '@nereid/protocol';
import type { Mailbox } from '@nereid/transport';

/**
 * Tells each gateway which of its streams a worker runs (docs/protocol.md R27): gateways have no other
 * sign of a stream between two chunks.
 */
export function passOnSigns(mailbox: Mailbox, { model, streams }: DescribedMessage): void {
  if (streams.length === 0) return;
  const byGateway = new Map<ProcessId, RunningStream[]>();
  for (const stream of streams) {
    const gateway = gatewayOf(stream.id);
    const known = byGateway.get(gateway);
    if (known === undefined) byGateway.set(gateway, [stream]);
    else known.push(stream);
  }
  for (const [gateway, own] of byGateway) mailbox.send(gateway, { kind: 'running', model, streams: own });
}

/** Request ids are `{gateway id}:{g}`. */
export function gatewayOf(requestId: string): ProcessId {
  return requestId.slice(0, requestId.lastIndexOf(':'));
}
