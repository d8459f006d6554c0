import { type ClientRequest, type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import type { Sent, WebhookMessage } from '@nereid/transport';
import { RequestFilteringHttpAgent, RequestFilteringHttpsAgent } from 'request-filtering-agent';
import { isNeverCalled, lookUpCallable, NEVER_CALLED } from './webhook-addresses.ts';
import { type WebhookOptions, webhookSignature } from './webhook-rules.ts';

/** Of a whole attempt: name, connection, answer. */
const ATTEMPT_MS_MAX = 10_000;
/** The agent's own words; its error has no code. */
const PRIVATE_ADDRESS = /is not allowed\. Because/;
const GONE_STATUS = 410;

export interface WebhookSender {
  send(url: string, message: WebhookMessage): Promise<Sent>;
  /** Breaks off what is being sent. */
  close(): void;
}

/**
 * Sends messages by the Standard Webhooks scheme. The address that a name leads to is looked at as the connection is
 * made, so that no second answer of a name server leads elsewhere, and redirects are not followed.
 */
export function createWebhookSender({ secrets, allowPrivate }: WebhookOptions, wallMs: () => number): WebhookSender {
  const filter = { allowPrivateIPAddress: allowPrivate };
  const agents = { 'http:': new RequestFilteringHttpAgent(filter), 'https:': new RequestFilteringHttpsAgent(filter) };
  const sending = new Set<ClientRequest>();

  const post = (url: URL, message: WebhookMessage): Promise<IncomingMessage> =>
    new Promise((resolve, reject) => {
      const at = new Date(wallMs());
      const headers = {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(message.body),
        'user-agent': 'Nereid-Webhooks',
        'webhook-id': message.id,
        'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
        'webhook-signature': webhookSignature(secrets, message.id, at, message.body),
      };
      const protocol = url.protocol === 'https:' ? 'https:' : 'http:';
      const start = protocol === 'https:' ? requestHttps : requestHttp;
      const signal = AbortSignal.timeout(ATTEMPT_MS_MAX);
      const request = start(url, { method: 'POST', headers, agent: agents[protocol], lookup: lookUpCallable, signal });
      sending.add(request);
      request.on('response', resolve);
      request.on('error', (error) =>
        reject(signal.aborted ? new Error(`no answer in ${ATTEMPT_MS_MAX / 1000} s`) : error),
      );
      request.on('close', () => sending.delete(request));
      request.end(message.body);
    });

  return {
    async send(text, message) {
      if (!URL.canParse(text)) return { ok: false, reason: `${text} is no URL`, final: true };
      const url = new URL(text);
      if (isNeverCalled(url.hostname)) return { ok: false, reason: NEVER_CALLED, final: true };
      try {
        const answer = await post(url, message);
        // Nothing in it matters, nor when it breaks off.
        answer.on('error', () => {}).resume();
        return verdictOf(answer.statusCode ?? 0);
      } catch (error) {
        return failure(error as Error);
      }
    },
    close() {
      for (const request of sending) request.destroy();
    },
  };
}

function verdictOf(status: number): Sent {
  if (status >= 200 && status < 300) return { ok: true };
  if (status >= 300 && status < 400) {
    return { ok: false, reason: `answered ${status}: redirects are not followed`, final: false };
  }
  return { ok: false, reason: `answered ${status}`, final: status === GONE_STATUS };
}

function failure({ message, ...more }: Error & { readonly code?: string }): Sent {
  if (message === NEVER_CALLED) return { ok: false, reason: NEVER_CALLED, final: true };
  if (PRIVATE_ADDRESS.test(message)) {
    const reason = 'its address is a private one; gateways started with --webhook-allow-private send there';
    return { ok: false, reason, final: true };
  }
  return { ok: false, reason: message || (more.code ?? 'failed'), final: false };
}
