import { LIMITS } from '@nereid/config';
import type { RequestLimits } from '@nereid/protocol';

/** Of what Redis holds; it was let in by narrower ones. */
export const STORED_LIMITS: RequestLimits = {
  json_depth_max: LIMITS.json_depth_max,
  elements_max: LIMITS.json_elements_max,
  bytes_max: LIMITS.body_bytes_raised_max,
};
