import { isJsonObject, NereidError, webhookUrl } from '@nereid/protocol';
import { type Delivery, type JobQueues, parsePublicJobId, publicJobId } from '@nereid/transport';

/** Deliveries of webhooks as clients see them. */
export interface JobWebhooks {
  /** Undefined where none was put down: the job is not over, has no webhook, or that is long ago. */
  find(publicId: string): Promise<Delivery | undefined>;
  /**
   * Has it sent at once, whether it was delivered before or not. Undefined where there is no such job. Throws
   * INVALID_ARG for a job without a webhook, and for one that is not over.
   */
  resend(publicId: string): Promise<Delivery | undefined>;
}

export function createJobWebhooks(queues: Pick<JobQueues, 'deliveries' | 'find'>): JobWebhooks {
  const { deliveries } = queues;

  /** Of a job whose delivery is no longer known. */
  const putDown = async (model: string, id: string): Promise<boolean> => {
    const job = await queues.find(model, id);
    if (job === undefined) return false;
    const publicId = publicJobId(model, id);
    const url = webhookUrl(isJsonObject(job.data) ? job.data.webhook : undefined, 'webhook');
    if (url === undefined)
      throw new NereidError('INVALID_ARG', `job '${publicId}' has no webhook`, { field: 'webhook' });
    if (job.finishedMs === undefined) {
      throw new NereidError('INVALID_ARG', `job '${publicId}' is not over: its webhook is sent when it is`, {
        field: 'id',
      });
    }
    await deliveries.addAnew(model, id, { url, ended: { ...job, data: null, result: null } });
    return true;
  };

  return {
    async find(publicId) {
      const known = parsePublicJobId(publicId);
      return known && deliveries.find(known.model, known.id);
    },
    async resend(publicId) {
      const known = parsePublicJobId(publicId);
      if (known === undefined) return undefined;
      const { model, id } = known;
      const isKnown = (await deliveries.resend(model, id)) || (await putDown(model, id));
      return isKnown ? deliveries.find(model, id) : undefined;
    },
  };
}
