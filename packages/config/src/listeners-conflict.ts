/** A listener as its flags `--<flag>-address` and `--<flag>-port` say it. */
export interface ListenerFlags {
  readonly flag: string;
  readonly open: boolean;
  readonly address: string;
  readonly port: number;
}

const EVERYWHERE: readonly string[] = ['0.0.0.0', '::'];

/** The first two that would need the same port of one address, in words; port 0 is any free one. */
export function listenersConflict(listeners: readonly ListenerFlags[]): string | undefined {
  const open = listeners.filter((listener) => listener.open && listener.port !== 0);
  for (const [index, later] of open.entries()) {
    const earlier = open
      .slice(0, index)
      .find((other) => other.port === later.port && meet(other.address, later.address));
    if (earlier === undefined) continue;
    return `--${later.flag}-port and --${earlier.flag}-port are both ${later.port}: give each a port of its own`;
  }
  return undefined;
}

function meet(one: string, other: string): boolean {
  return one === other || EVERYWHERE.includes(one) || EVERYWHERE.includes(other);
}
