/** Options of what gateways do about jobs: webhooks, and the page of BullMQ's queues. */
import { z } from 'zod';
import { type FlagMeta, flagMetas, GATEWAY } from './flag-meta.ts';

const ours: Pick<FlagMeta, 'topic' | 'roles' | 'ours'> = { topic: 'HTTP', roles: GATEWAY, ours: true };

/** Standard Webhooks: the base64 of 24 to 64 bytes behind a prefix. */
const WEBHOOK_SECRET =
  /^whsec_(?=[A-Za-z0-9+/]{31,86}={0,2}$)(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Whether webhooks can be signed with it. */
export function isWebhookSecret(text: string): boolean {
  return WEBHOOK_SECRET.test(text);
}

export const jobOptions = {
  webhookSecret: z
    .array(z.string().regex(WEBHOOK_SECRET))
    .default([])
    .register(flagMetas, {
      ...ours,
      secret: true,
      form: 'whsec_<base64>',
      allowed: 'whsec_ and the base64 of 24 to 64 random bytes',
      description:
        'What the webhooks of jobs are signed with, as Standard Webhooks says. Repeat it while one takes the place of another: each signs. None: jobs with a webhook are refused, and none is sent. Set it in the environment or the file, since any user of the machine sees command lines.',
    }),
  webhookAllowPrivate: z
    .boolean()
    .default(false)
    .register(flagMetas, {
      ...ours,
      description:
        "Send webhooks to private, loopback and link-local addresses too: whoever may submit a job can then have this server call other machines of its network. The clouds' metadata addresses stay refused.",
    }),
  bullBoard: z
    .boolean()
    .default(false)
    .register(flagMetas, {
      ...ours,
      description:
        'Serve bull-board, a page of the job queues, at `/bull-board/` for reading; at `/bull-board/admin/` with all its buttons, for admin calls.',
    }),
};
