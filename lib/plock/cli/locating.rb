# frozen_string_literal: true

require_relative "../locking/kind"

module Plock
  module CLI
    # Keys as people name them: by what they call them and by the kind of lock, or by what
    # `plock list` shows, where only the digest is known.
    module Locating
      KINDS = Locking::Kind::ALL.to_h { |kind| [kind.name.to_s.tr("_", "-"), kind] }.freeze
      SUFFIX = Regexp.union(*KINDS.values.map(&:suffix))
      STORE_KEY = /\Aplock:v1:(?:[A-Za-z0-9_.-]{1,32}:)?\h{64}(?:#{SUFFIX})\z/
      private_constant :KINDS, :SUFFIX, :STORE_KEY

      private

      def kind_option(options)
        options.on(
          "--kind KIND", "what KEY is locked as: lock (by default), semaphore, read-write, once"
        ) { |text| @kind = text }
      end

      # @return [Plock::Status] for {Locking#status} and {Locking#break}
      def target
        kind =
          KINDS.fetch(@kind || "lock") do
            raise usage("there is no kind #{@kind}#{UsageError.suggestion(@kind, KINDS.keys)}")
          end
        return Plock::Status.new(nil, @key, nil) if @key.match?(STORE_KEY)

        Plock::Status.new(@key, store.profile.store_key(@key, kind), nil)
      end
    end
  end
end
