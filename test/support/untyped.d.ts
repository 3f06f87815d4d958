/** What has no types of its own, as far as tests use it. */

declare module 'smtp-server' {
  import type { Server } from 'node:net';
  import type { Readable } from 'node:stream';

  interface Envelope {
    readonly envelope: {
      readonly mailFrom: false | { readonly address: string };
      readonly rcptTo: readonly { readonly address: string }[];
    };
  }
  interface SmtpServerOptions {
    readonly disabledCommands?: readonly string[];
    readonly authOptional?: boolean;
    readonly onAuth?: (
      login: { readonly username: string; readonly password: string },
      session: unknown,
      done: (error: Error | null, result?: { user: string }) => void,
    ) => void;
    readonly onData?: (stream: Readable, session: Envelope, done: (error?: Error) => void) => void;
  }
  export class SMTPServer {
    readonly server: Server;
    constructor(options: SmtpServerOptions);
    listen(port: number, host: string): void;
    close(done: () => void): void;
  }
}

declare module 'oidc-provider' {
  import type { RequestListener } from 'node:http';

  interface Account {
    readonly accountId: string;
    claims(): Promise<Record<string, unknown>>;
  }
  interface Interaction {
    readonly prompt: { readonly name: string; readonly details: Record<string, never> };
    readonly params: { readonly client_id: string };
    readonly session?: { readonly accountId: string };
  }
  class Grant {
    constructor(of: { accountId: string; clientId: string });
    addOIDCScope(scope: string): void;
    save(): Promise<string>;
  }
  export default class Provider {
    readonly Grant: typeof Grant;
    constructor(issuer: string, configuration: Record<string, unknown>);
    callback(): RequestListener;
    interactionDetails(...request: Parameters<RequestListener>): Promise<Interaction>;
    interactionFinished(
      request: Parameters<RequestListener>[0],
      response: Parameters<RequestListener>[1],
      result: Record<string, unknown>,
    ): Promise<void>;
  }
  export type { Account };
}
