/**
 * A JSON value as the text of a parameter; null is NULL. Arrays become array literals, objects JSON.
 */
export function parameterText(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  if (typeof value === 'string') return value;
  return Array.isArray(value) ? arrayLiteral(value) : JSON.stringify(value);
}

function arrayLiteral(values: readonly unknown[]): string {
  return `{${values.map(elementText).join(',')}}`;
}

function elementText(value: unknown): string {
  if (value === null) return 'NULL';
  if (Array.isArray(value)) return arrayLiteral(value);
  if (typeof value === 'string') return quoted(value);
  return typeof value === 'object' ? quoted(JSON.stringify(value)) : String(value);
}

/** Inside double quotes an array literal knows the backslash alone, and not the escapes of JSON. */
const quoted = (text: string): string => `"${text.replace(/["\\]/g, '\\$&')}"`;
