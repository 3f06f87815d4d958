import { type Draw, digits, drawText, letters, lettersAndDigits, pick } from './draw.ts';

/** Made-up values. None of them is anybody's: mail goes to the domains, and calls to the numbers, that are kept for examples. */

const words = (text: string): readonly string[] => text.trim().split(/\s*,\s*/);

const FIRST_NAMES =
  words(`Ada, Alan, Alice, Amir, Ana, Anton, Aya, Bela, Bruno, Carla, Chen, Clara, Daniel, Dara, David,
  Elena, Emil, Emma, Eva, Felix, Fatima, Frank, Grace, Hana, Hugo, Ida, Ines, Ivan, Jana, Jonas, Joao, Julia, Karim, Kofi,
  Lara, Lea, Leo, Lina, Luca, Maja, Marco, Maria, Mei, Milan, Mina, Nadia, Nico, Nora, Olga, Omar, Oscar, Paula, Pedro, Priya,
  Rania, Rosa, Ruth, Sami, Sara, Simon, Sofia, Sven, Tara, Theo, Tom, Uma, Vera, Viktor, Wanda, Yara, Yusuf, Zoe`);
const LAST_NAMES =
  words(`Abbott, Adler, Bauer, Becker, Bell, Berg, Blanc, Bosch, Brandt, Carter, Castro, Chen, Clark, Costa,
  Cruz, Dahl, Diaz, Dubois, Egger, Ekman, Engel, Ferrari, Fischer, Fontaine, Fuchs, Garcia, Gomez, Graf, Gupta, Haas, Hansen,
  Hill, Horvat, Ito, Jansen, Kaya, Keller, Khan, Kim, Klein, Koch, Kowalski, Kumar, Lang, Larsen, Lee, Lopez, Marino, Meyer,
  Moreau, Nagy, Nguyen, Novak, Olsen, Park, Petit, Popov, Ricci, Rossi, Roth, Sato, Schmid, Silva, Singh, Sousa, Stein, Suzuki,
  Tanaka, Vogel, Wagner, Weber, Wolf, Wright, Young, Zhang`);
const CITIES =
  words(`Arden, Ashford, Belmont, Birchwood, Brookfield, Cedarville, Clifton, Dunmore, Eastbrook, Elmwood, Fairview,
  Glenwood, Greenfield, Harborview, Highfield, Kingsbury, Lakeside, Lindenau, Maplewood, Millbrook, Newbury, Northfield, Oakdale,
  Pinehurst, Riverton, Rosedale, Stonebridge, Sunnydale, Thornton, Westbrook, Willowbrook, Woodside`);
const COUNTRIES =
  words(`Argentina, Australia, Austria, Belgium, Brazil, Canada, Chile, Denmark, Egypt, Finland, France, Germany,
  Ghana, Greece, India, Indonesia, Ireland, Italy, Japan, Kenya, Mexico, Morocco, Netherlands, Norway, Peru, Poland, Portugal,
  South Korea, Spain, Sweden, Switzerland, Thailand, Uruguay, Vietnam`);
const COUNTRY_CODES = words(
  'AR, AT, AU, BE, BR, CA, CH, CL, DE, DK, EG, ES, FI, FR, GH, GR, ID, IE, IN, IT, JP, KE, MX, NL, NO, PE, PL, PT, SE',
);
const COMPANIES =
  words(`Acorn, Alder, Amber, Anchor, Aspen, Beacon, Birch, Cobalt, Copper, Coral, Delta, Ember, Falcon, Fern,
  Granite, Harbor, Hazel, Indigo, Ivory, Juniper, Lantern, Maple, Meridian, Nimbus, Onyx, Orchard, Pioneer, Quartz, Saffron, Summit,
  Willow, Zephyr`);
const COMPANY_SUFFIXES = words('Ltd, Inc, GmbH, SA, BV, AG, Group, Partners, Labs, Works');
const STREETS = words(
  'Main, Oak, Park, Mill, Church, Station, Garden, River, Hill, Lake, Forest, School, Market, Bridge, Meadow, Spring',
);
const STREET_SUFFIXES = words('Street, Road, Avenue, Lane, Drive, Way, Court, Square');
const STATES = words('Northland, Southmark, Eastmoor, Westvale, Highmarch, Lowfield, Riverland, Lakeshire');
const MAIL_DOMAINS = words('example.com, example.net, example.org');
const LOREM =
  words(`lorem, ipsum, dolor, sit, amet, consectetur, adipiscing, elit, sed, do, eiusmod, tempor, incididunt, ut, labore,
  et, dolore, magna, aliqua, enim, ad, minim, veniam, quis, nostrud, exercitation, ullamco, laboris, nisi, aliquip, ex, ea, commodo`);
const CURRENCIES = words('EUR, USD, GBP, CHF, JPY, SEK, NOK, DKK, PLN, CAD, AUD, BRL, INR');

/** Makes a value out of numbers that are drawn. */
export type Fake = (draw: Draw) => string;

const firstName: Fake = (draw) => pick(draw, FIRST_NAMES);
const lastName: Fake = (draw) => pick(draw, LAST_NAMES);
const userName: Fake = (draw) =>
  `${firstName(draw)}.${lastName(draw)}.${drawText(draw, 'abcdefghijklmnopqrstuvwxyz0123456789', 8)}`.toLowerCase();
/** Two are hardly ever the same, since addresses are mostly unique. */
const email: Fake = (draw) => `${userName(draw)}@${pick(draw, MAIL_DOMAINS)}`;
const company: Fake = (draw) => `${pick(draw, COMPANIES)} ${pick(draw, COMPANIES)} ${pick(draw, COMPANY_SUFFIXES)}`;
const street: Fake = (draw) => `${pick(draw, STREETS)} ${pick(draw, STREET_SUFFIXES)}`;
const city: Fake = (draw) => pick(draw, CITIES);
const country: Fake = (draw) => pick(draw, COUNTRIES);
const postcode: Fake = (draw) => digits(draw, 5);
const address: Fake = (draw) => `${1 + draw(200)} ${street(draw)}, ${postcode(draw)} ${city(draw)}`;
const iban: Fake = (draw) => `XX${digits(draw, 2)}${lettersAndDigits(draw, 4)}${digits(draw, 14)}`;
const siret: Fake = (draw) => digits(draw, 14);
const phone: Fake = (draw) => `+1 ${2 + draw(8)}${digits(draw, 2)} 555 01${digits(draw, 2)}`;
const sentence = (draw: Draw, length: number): string => {
  const text = Array.from({ length }, () => pick(draw, LOREM)).join(' ');
  return `${text[0]!.toUpperCase()}${text.slice(1)}.`;
};
const paragraph: Fake = (draw) => Array.from({ length: 5 }, () => sentence(draw, 10)).join(' ');
const hex = (draw: Draw, length: number): string => drawText(draw, '0123456789abcdef', length);
const uuid: Fake = (draw) =>
  `${hex(draw, 8)}-${hex(draw, 4)}-4${hex(draw, 3)}-${'89ab'[draw(4)]}${hex(draw, 3)}-${hex(draw, 12)}`;

/** `anon.fake_<name>()`, and `anon.pseudo_<name>(seed)` for most. */
export const FAKES = {
  first_name: firstName,
  last_name: lastName,
  email,
  company,
  address,
  city,
  country,
  postcode,
  iban,
  siret,
} as const satisfies Record<string, Fake>;

/** `anon.dummy_<name>()`; the names are those of the extension. */
export const DUMMIES: Readonly<Record<string, Fake>> = {
  first_name: firstName,
  last_name: lastName,
  name: (draw) => `${firstName(draw)} ${lastName(draw)}`,
  name_with_title: (draw) => `${pick(draw, ['Mr', 'Ms', 'Dr'])} ${firstName(draw)} ${lastName(draw)}`,
  title: (draw) => pick(draw, ['Mr', 'Ms', 'Dr']),
  suffix: (draw) => pick(draw, ['Jr.', 'Sr.', 'II', 'III']),
  username: userName,
  email,
  safe_email: email,
  free_email: email,
  password: (draw) => lettersAndDigits(draw, 16),
  phone_number: phone,
  cell_number: phone,
  company_name: company,
  company_suffix: (draw) => pick(draw, COMPANY_SUFFIXES),
  city_name: city,
  country_name: country,
  country_code: (draw) => pick(draw, COUNTRY_CODES),
  state_name: (draw) => pick(draw, STATES),
  state_abbr: (draw) => letters(draw, 2),
  street_name: street,
  street_suffix: (draw) => pick(draw, STREET_SUFFIXES),
  building_number: (draw) => String(1 + draw(999)),
  zip_code: postcode,
  post_code: postcode,
  latitude: (draw) => (draw(180_000_000) / 1e6 - 90).toFixed(6),
  longitude: (draw) => (draw(360_000_000) / 1e6 - 180).toFixed(6),
  ip: (draw) => `203.0.113.${draw(256)}`,
  ipv4: (draw) => `203.0.113.${draw(256)}`,
  ipv6: (draw) => `2001:db8:${hex(draw, 4)}:${hex(draw, 4)}::${hex(draw, 4)}`,
  mac_address: (draw) => `02:${Array.from({ length: 5 }, () => hex(draw, 2)).join(':')}`,
  user_agent: (draw) => `Mozilla/5.0 (Example; ${pick(draw, COMPANIES)}) Browser/${1 + draw(99)}.0`,
  domain_suffix: (draw) => pick(draw, ['test', 'example']),
  hex_color: (draw) => `#${hex(draw, 6)}`,
  uuidv4: uuid,
  bic: (draw) => `${letters(draw, 4)}XX${lettersAndDigits(draw, 2)}`,
  isbn: (draw) => `978${digits(draw, 10)}`,
  credit_card_number: (draw) => `0000${digits(draw, 12)}`,
  currency_code: (draw) => pick(draw, CURRENCIES),
  file_name: (draw) => `${pick(draw, LOREM)}-${digits(draw, 6)}.txt`,
  word: (draw) => pick(draw, LOREM),
  words: (draw) => Array.from({ length: 4 }, () => pick(draw, LOREM)).join(' '),
  sentence: (draw) => sentence(draw, 8),
  paragraph,
  boolean: (draw) => pick(draw, ['true', 'false']),
};

/** `paragraphs` of words that mean nothing. */
export const loremIpsum = (draw: Draw, paragraphs: number): string =>
  Array.from({ length: paragraphs }, () => paragraph(draw)).join('\n\n');
