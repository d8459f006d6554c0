import { eventually } from './metrics.ts';

/** Waits until the gateway at that address says that the model is ready. */
export function modelReady(http: string, name: string): Promise<void> {
  return eventually(`${name} is ready`, async () => (await fetch(`${http}/v2/models/${name}/ready`)).ok);
}

/** Waits until the repository index says that the model is not loaded, and this in its reason. */
export function modelUnavailable(http: string, name: string, reason: string): Promise<void> {
  return eventually(`the index says of ${name}: ${reason}`, async () => {
    const response = await fetch(`${http}/v2/repository/index`, { method: 'POST' });
    const index: readonly { name: string; state?: string; reason?: string }[] = JSON.parse(await response.text());
    const told = index.find((entry) => entry.name === name);
    return told?.state === 'UNAVAILABLE' && told.reason?.includes(reason) === true;
  });
}
