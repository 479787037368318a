# frozen_string_literal: true

require_relative "../onlooker"

module Torture
  module Sentinel
    # Looks at the present primary. It also notes how long a key has no holder on that server.
    class Onlooker < Torture::Onlooker
      GAP = SECOND / 4 # looks that are closer together than this belong to the same period

      private

      def look
        @server ||= @arena.primary
        if @server != @arena.primary
          @client&.close
          @client = nil
          @server = @arena.primary
        end
        super
      end

      def see(key, queue, holders, notes, asked_at, now)
        super
        return unless holders.nil? || holders.empty?

        last = @chronicle.free[key].last
        if last && last.server == @server.port && asked_at - last.to < GAP
          last.to = asked_at
        else
          @chronicle.free[key] << Chronicle::Free.new(@server.port, now, asked_at)
        end
      end
    end
  end
end
