/** RFC 3339 in UTC with whole seconds, as all resources show times. */
export const timestamp = (date: Date): string => `${date.toISOString().slice(0, 19)}Z`;

/** The same, left out where there is none. */
export const optionalTimestamp = (date: Date | null): string | undefined => (date ? timestamp(date) : undefined);
