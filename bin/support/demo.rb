# frozen_string_literal: true

require_relative "demo/contest"
require_relative "demo/given_server"
require_relative "demo/host_store"
require_relative "demo/report"

SIGNAL_STATUS = 128 # shells add this to a signal's number

begin
  url = ENV.fetch("PLOCK_URL", "")
  store =
    if url.empty? then Demo::HostStore.new
    elsif Plock::LocalStore.opens?(url) then Demo::HostStore.new(url)
    else Demo::GivenServer.new(url)
    end
  report = Demo::Report.new(Demo::Contest.new(store).run)
  puts report
  exit report.sound?
rescue Plock::Error, RedisClient::Error => e
  abort "bin/demo: #{e.message}"
rescue SignalException => e
  exit SIGNAL_STATUS + e.signo
end
