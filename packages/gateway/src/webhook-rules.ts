import type { ErrorInfo } from '@nereid/protocol';
import { Webhook } from 'standardwebhooks';

export interface WebhookOptions {
  /** `whsec_` and base64, as Standard Webhooks has them; each signs, so that one can take another's place. Without any nothing is sent. */
  readonly secrets: readonly string[];
  /** Send to private and loopback addresses too. */
  readonly allowPrivate: boolean;
}

/** What the door asks before it takes a job with a webhook. */
export interface WebhookRules {
  /** Why this gateway takes no webhooks; undefined where it does. */
  refusal(): ErrorInfo | undefined;
}

export const NO_WEBHOOKS: WebhookOptions = { secrets: [], allowPrivate: false };

export function webhookRules({ secrets }: WebhookOptions): WebhookRules {
  const message =
    'webhooks are off here: start the gateway with --webhook-secret, with which it signs them, or leave the webhook out';
  const error: ErrorInfo = { code: 'UNSUPPORTED', message, field: 'Nereid-Webhook' };
  return { refusal: () => (secrets.length === 0 ? error : undefined) };
}

/** `webhook-signature` of a message at a time: one signature for each secret. Throws where a secret is none. */
export function webhookSignature(secrets: readonly string[], id: string, at: Date, body: string): string {
  return secrets.map((secret) => new Webhook(secret).sign(id, at, body)).join(' ');
}
