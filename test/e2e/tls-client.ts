import { type RequestOptions, request } from 'node:https';
import { setTimeout as delay } from 'node:timers/promises';

const POLL_MS = 30;
const READY_LIMIT_MS = 50_000;

export interface TlsAnswer {
  readonly status: number;
  readonly text: string;
}

/** Asks over TLS; rejects where no connection comes about. */
export function askOverTls(url: string, tls: RequestOptions, body?: string): Promise<TlsAnswer> {
  return new Promise((resolve, reject) => {
    const options = { ...tls, agent: false, method: body === undefined ? 'GET' : 'POST' };
    const sent = request(url, options, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

/** Waits until the server is ready. */
export async function readyOverTls(base: string, tls: RequestOptions): Promise<void> {
  for (const start = performance.now(); performance.now() - start < READY_LIMIT_MS; await delay(POLL_MS)) {
    const answer = await askOverTls(`${base}/v2/health/ready`, tls).catch(() => undefined);
    if (answer?.status === 200) return;
  }
  throw new Error(`${base} is not ready`);
}
