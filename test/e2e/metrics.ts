import { setTimeout as delay } from 'node:timers/promises';

const POLL_MS = 20;
const LIMIT_MS = 10_000;

/** The value of a metric's sample with (at least) these labels, their sum where there are several. Throws where there is none. */
export async function metric(base: string, name: string, labels: Record<string, string> = {}): Promise<number> {
  const response = await fetch(`${base}/metrics`);
  const lines = (await response.text()).split('\n').filter((line) => line.startsWith(name));
  const wanted = Object.entries(labels).map(([key, value]) => `${key}="${value}"`);
  const samples = lines.filter(
    (line) => /[ {]/.test(line.charAt(name.length)) && wanted.every((l) => line.includes(l)),
  );
  if (samples.length === 0) throw new Error(`no sample of ${name}${JSON.stringify(labels)} at ${base}`);
  return samples.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}

/** Polls until the condition holds: for what the server does after it has answered. */
export async function eventually(what: string, condition: () => Promise<boolean>): Promise<void> {
  for (const start = performance.now(); performance.now() - start < LIMIT_MS; await delay(POLL_MS)) {
    if (await condition()) return;
  }
  throw new Error(`${what}: not within ${LIMIT_MS} ms`);
}
