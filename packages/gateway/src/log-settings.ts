import type { Log, LogControl, LogSettings } from '@nereid/runtime';
import { changeValue, type SharedValues } from '@nereid/transport';
import { type Result, resultOf } from './result.ts';
import { valueMembers } from './shared-value.ts';

/** The name under which the cluster shares what was changed of them. */
const LOG_VALUE = 'log-settings';
/** Triton keeps the level in 32 bits with a sign. */
export const LOG_VERBOSE_MAX = 2_147_483_647;

export type LogChanges = Partial<LogSettings>;

export interface ShownLogSettings extends LogSettings {
  /** The file that the log is appended to; '' for none. */
  readonly file: string;
}

/**
 * The log settings of the cluster (Triton's docs/protocol/extension_logging.md). Each process begins
 * with those of its own flags; what is changed here holds for all of them, the rest stays each one's
 * own. So what is shown is what this process has.
 */
export interface LogSettingsService {
  current(): ShownLogSettings;
  /** UNAVAILABLE where the cluster's directory does not answer; the settings are then as before. */
  change(changes: LogChanges): Promise<Result<ShownLogSettings>>;
}

export interface LogSettingsParts {
  readonly values: SharedValues;
  /** Of this process's log. */
  readonly control: LogControl;
}

export function createLogSettings({ values, control }: LogSettingsParts): LogSettingsService {
  const current = () => ({ file: control.file, ...settingsNow(values, control) });
  return {
    current,
    change: (changes) =>
      resultOf(async () => {
        const merged = (text: string | undefined) => JSON.stringify({ ...changesIn(text), ...changes });
        if (Object.keys(changes).length > 0) await changeValue(values, LOG_VALUE, merged);
        return current();
      }),
  };
}

/** Keeps this process's log as the cluster's settings say, from now on, and says so in it. */
export function followLogSettings({ values, control, log }: LogSettingsParts & { readonly log: Log }): void {
  let applied = JSON.stringify(control.start);
  const apply = () => {
    const settings = settingsNow(values, control);
    const text = JSON.stringify(settings);
    if (text === applied) return;
    applied = text;
    control.apply(settings);
    log.info({ settings }, 'log settings of the cluster');
  };
  if (values.value(LOG_VALUE) !== undefined) apply();
  values.watch((change) => {
    if (change.type === 'value' && change.name === LOG_VALUE) apply();
  });
}

function settingsNow(values: SharedValues, { start }: LogControl): LogSettings {
  return { ...start, ...changesIn(values.value(LOG_VALUE)?.text) };
}

/** Leaves out what is no setting, as of another build. */
function changesIn(text: string | undefined): LogChanges {
  const { info, warning, error, verboseLevel, format } = valueMembers(text);
  return {
    ...(typeof info === 'boolean' ? { info } : {}),
    ...(typeof warning === 'boolean' ? { warning } : {}),
    ...(typeof error === 'boolean' ? { error } : {}),
    ...(typeof verboseLevel === 'number' ? { verboseLevel } : {}),
    ...(format === 'default' || format === 'ISO8601' ? { format } : {}),
  };
}
