/** The mixes of faults that seeds run under. */
import type { MainRole } from '@nereid/transport';
import { FAULT_MIX, type Fault } from './sim-faults.ts';
import type { Mix } from './simulate.ts';

const EVERYONE: readonly MainRole[] = ['gateway', 'coordinator', 'worker'];

export const MIXES = {
  none: { faults: 'none', kinds: [], victims: EVERYONE },
  single: { faults: 'single', kinds: FAULT_MIX, victims: EVERYONE },
  storm: { faults: 'storm', kinds: FAULT_MIX, victims: EVERYONE },
} as const satisfies Readonly<Record<string, Mix>>;

export type MixName = keyof typeof MIXES;

/** Of four seeds one has no fault and one a single fault. */
export function mixOf(seed: number): MixName {
  return (['storm', 'single', 'storm', 'none'] as const)[seed % 4] ?? 'storm';
}

/** Faults of these kinds only, at these roles. */
export function targeted(faults: Mix['faults'], kinds: readonly Fault[], victims: readonly MainRole[] = EVERYONE): Mix {
  return { faults, kinds, victims };
}
