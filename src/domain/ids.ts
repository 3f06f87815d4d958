import { randomInt, randomUUID } from 'node:crypto';

/** `adjective-noun-12345678` */
export type ProjectId = string;
/** `br-adjective-noun-a1b2c3d4`: exactly three groups after `br-`, or neonctl takes the id for a name. */
export type BranchId = string;
/** `ep-adjective-noun-a1b2c3d4` */
export type EndpointId = string;
/** `snap-adjective-noun-a1b2c3d4` */
export type SnapshotId = string;
/** `org-adjective-noun-12345678` */
export type OrganizationId = string;
/** UUID */
export type TimelineId = string;
/** UUID */
export type OperationId = string;
/** UUID; one API call or platform decision, which may start several operations. */
export type CallId = string;
/** UUID */
export type UserId = string;

const ADJECTIVES =
  'amber ancient autumn billowing bitter bold broad calm cold cool crimson curly damp dark dawn delicate dry empty falling flat fragrant frosty gentle green hidden holy icy late lively long lucky misty morning mute noisy old orange patient plain polished proud purple quiet rapid red restless rough round royal shiny shy silent small snowy soft solitary sparkling spring square steep still summer super sweet throbbing tight tiny twilight wandering weathered white wild winter wispy withered yellow young'.split(
    ' ',
  );
const NOUNS =
  'alder ash aspen bank bark beech birch bird block boat bough bread bush butterfly cake cedar cherry cloud copse credit darkness dawn dew disk dream dust elm feather fern field fire firefly flower fog forest frog frost glade glitter grass grove hall hat haze hazel heart hill holly ivy king lab lake larch leaf limit linden maple math meadow mode moon morning moss mouse mud night oak paper pine poetry pond queen rain recipe resonance rice river root rowan salad scene sea seed shadow shape silence sky smoke snow sound star sun surf term thicket thorn thunder tooth tree truth twig union unit violet voice water wave wildflower willow wind wood yew'.split(
    ' ',
  );
const ALPHANUMERIC = 'abcdefghijklmnopqrstuvwxyz0123456789';
const DIGITS = '0123456789';

function pick(from: ArrayLike<string>): string {
  return from[randomInt(from.length)]!;
}

function suffix(alphabet: string): string {
  return Array.from({ length: 8 }, () => pick(alphabet)).join('');
}

function pair(): string {
  return `${pick(ADJECTIVES)}-${pick(NOUNS)}`;
}

export const newProjectId = (): ProjectId => `${pair()}-${suffix(DIGITS)}`;
export const newBranchId = (): BranchId => `br-${pair()}-${suffix(ALPHANUMERIC)}`;
export const newEndpointId = (): EndpointId => `ep-${pair()}-${suffix(ALPHANUMERIC)}`;
export const newSnapshotId = (): SnapshotId => `snap-${pair()}-${suffix(ALPHANUMERIC)}`;
export const newOrganizationId = (): OrganizationId => `org-${pair()}-${suffix(DIGITS)}`;
export const newTimelineId = (): TimelineId => randomUUID();

/** The form every id in a path has (public OpenAPI file). */
export const PATH_ID_PATTERN = '^[a-z0-9-]{1,60}$';
