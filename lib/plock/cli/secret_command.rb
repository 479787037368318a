# frozen_string_literal: true

require_relative "command"
require_relative "description"

module Plock
  module CLI
    # `plock secret`
    class SecretCommand < Command
      NAME = "secret"
      USAGE = "[options]"
      DESCRIPTION = <<~TEXT
        Compares the secret here with the one that others use in the same namespace. The store
        keeps a fingerprint of the secret, which does not reveal it. --replace makes the secret
        here the right one. Processes with the old secret do not see locks of the new one: stop
        all processes, replace the secret, and start them.
        Exit status: 0 if they are the same, none is kept, or it was replaced; 1 if they differ
        or the answer was no.
      TEXT

      private

      def define(options)
        options.on("--replace", "let this secret be the right one from now on; asks before") do
          @replace = true
        end
        options.on("-y", "--yes", "do not ask") { @yes = true }
        options.on("--force", "even while keys of the namespace are held") { @force = true }
        json_option(options)
      end

      def take(operands)
        take_none(operands)
        if (@force || @yes) && !@replace
          raise usage("--#{@force ? "force" : "yes"} is of no use without --replace")
        end
      end

      def call
        unless store.can?(:compares_secrets)
          raise Failure.new("#{store.url} keeps no fingerprint of the secret",
                            ExitStatus::UNAVAILABLE)
        end

        kept = store.kept_fingerprint
        replaced = @replace && agreed?(kept) && replace
        kept = store.kept_fingerprint if replaced
        same = config.agrees?(kept)
        @json ? print_json(kept, same) : print_text(kept)
        same && (!@replace || replaced) ? ExitStatus::OK : ExitStatus::DIFFERENT
      end

      def config = store.config

      def agreed?(kept)
        return true if @yes || config.agrees?(kept)

        confirmed?(
          [here, there(kept)],
          "Processes with the other secret lock other keys from now on. Have all been stopped?"
        )
      end

      def replace
        store.replace_secret(force: @force ? true : false)
        true
      rescue ConfigurationError => e
        raise unless e.code == :held

        raise Failure.new("#{e.message}; --force replaces it anyway", ExitStatus::DIFFERENT)
      end

      def print_text(kept) = $stdout.puts(here, kept ? there(kept) : "there: nothing is kept yet")

      def here = "here:  #{config.described_secret}, in #{config.described} of #{store.url}"

      def there(kept) = "there: #{Description.printable(kept.to_s)}"

      def print_json(kept, same)
        there =
          kept &&
          {
            fingerprint: kept.value, since: kept.since.utc.strftime("%FT%TZ"), host: kept.host,
            pid: kept.pid
          }
        $stdout.puts(
          json(
            store: store.url, namespace: config.namespace, fingerprint: config.fingerprint,
            from: config.secret_origin, kept: there, same: same
          )
        )
      end
    end
  end
end
