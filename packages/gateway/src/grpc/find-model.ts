import { type ModelLookup, versionRefusal } from '@nereid/caller';
import type { Gateway } from '../gateway.ts';

/** The model, as HTTP finds it; a version that is no number is told first, since here it may be any text. */
export function findModel(gateway: Pick<Gateway, 'model'>, name: string, version: string): ModelLookup {
  const found = gateway.model(name, version);
  if (found.ok) return found;
  return { ok: false, error: versionRefusal(version) ?? found.error };
}
