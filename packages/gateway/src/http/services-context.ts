import type { Services } from '../services.ts';
import type { JsonBodyContext } from './json-body.ts';

/** What the handlers of settings and of the repository need. */
export interface ServicesContext extends JsonBodyContext {
  readonly services: Services;
  /** The door takes connections from its own machine alone. */
  readonly onLoopback: boolean;
}
