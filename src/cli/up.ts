import { type Command, Option } from 'commander';
import { type GivenFlags, readSettings } from '../domain/read-settings.ts';
import {
  SETTINGS,
  type Setting,
  type SettingName,
  type Settings,
  settingFlag,
  settingVariable,
} from '../domain/settings.ts';

/** Adds `up`, with a flag for every setting. */
export function registerUp(program: Command, up: (settings: Settings) => Promise<void>): void {
  const command = program.command('up').description('start Coppice on this machine, and stay until it is stopped');
  for (const [name, setting] of Object.entries(SETTINGS) as [SettingName, Setting][]) {
    const value = setting.type === 'boolean' ? '' : ' <value>';
    // A secret on a command line is seen by every user of the machine.
    if (setting.secret) continue;
    const text = `${setting.description} (${settingVariable(name)}${defaultText(setting)})`;
    command.addOption(new Option(`${settingFlag(name)}${value}`, plain(text)));
  }
  const secrets = (Object.entries(SETTINGS) as [SettingName, Setting][]).filter(([, { secret }]) => secret);
  const lines = secrets.map(
    ([name, setting]) =>
      `  ${settingVariable(name)}\n      ${plain(setting.description)} (${defaultText(setting).slice(2)})`,
  );
  command.addHelpText('after', `\nSecrets, as environment variables alone:\n${lines.join('\n')}`);
  command.action((flags: GivenFlags) =>
    up(readGivenSettings(flags, (text) => process.stderr.write(`coppice: ${text}\n`))),
  );
}

function defaultText({ default: value, default_text: text }: Setting): string {
  const shown = typeof value === 'string' ? value : text;
  return shown ? `; default ${plain(shown)}` : '';
}

/** A terminal shows no Markdown. */
const plain = (text: string): string => text.replaceAll('`', '');

/** Several things are wrong with what was given; each is a line. */
export class SettingsError extends Error {
  override name = 'SettingsError';
}

/** The settings of the environment and of flags named as commander names them. Throws SettingsError. */
export function readGivenSettings(flags: GivenFlags, warn: (text: string) => void = () => undefined): Settings {
  const result = readSettings(flags, { env: process.env, uid: process.getuid?.(), cwd: process.cwd() });
  if ('problems' in result) throw new SettingsError(result.problems.join('\n'));
  for (const warning of result.warnings) warn(warning);
  return result.settings;
}
